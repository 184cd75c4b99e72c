"""Flask. Run it: flask --app flask_app run"""

from flask import Flask, request
from orders import put

app = Flask(__name__)


@app.post("/orders")
def order():
    return "", put(request.get_data())
