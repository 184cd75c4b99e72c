"""What a call or an attribute tells about a mistake: wrong and unknown arguments, secrets in them, names of before."""

from .attributes import HintedClass as HintedClass
from .attributes import hinted as hinted
from .checking import check_fields as check_fields
from .checking import check_keywords as check_keywords
from .checking import check_range as check_range
from .checking import check_type as check_type
from .checking import checked as checked
from .checking import counted as counted
from .checking import file_of as file_of
from .checking import hints_of as hints_of
from .checking import with_article as with_article
from .constructors import made_by as made_by
from .renamed import Missing as Missing
from .renamed import Renamed as Renamed
from .renamed import current_names as current_names
from .renamed import renamed_names as renamed_names
from .secrets import SECRETS as SECRETS
from .secrets import without_secrets as without_secrets
from .unknown import advise as advise
from .unknown import instead as instead
