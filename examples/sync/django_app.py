"""Django, as one file. Run it: python django_app.py runserver"""

import os
import sys

from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from orders import put

settings.configure(DEBUG=True, SECRET_KEY=os.urandom(32).hex(), ROOT_URLCONF=__name__)


@csrf_exempt
@require_POST
def order(request):
    return HttpResponse(status=put(request.body))


urlpatterns = [path("orders", order)]
application = get_wsgi_application()

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
