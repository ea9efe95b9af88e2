"""All applications, and those of them that are quick to start."""

from applications import Django, PhpMyAdminSite, TomcatServer, Wiki, WordPressSite
from databases import DATABASES
from endpoints import ENDPOINTS
from own_sites import Express, Flask, Php, PhpApache, PhpBare, PhpFpm, Rails
from second_steps import SecondSteps
from steps import COOKIES

SITES = (PhpBare, Php, PhpFpm, PhpApache, Flask, Express, Rails)
APPLICATIONS = (Django, TomcatServer, WordPressSite, PhpMyAdminSite, Wiki)
TARGETS = {one.name: one for one in (*SITES, *APPLICATIONS, *DATABASES, *COOKIES, *ENDPOINTS, SecondSteps)}
QUICK = ["php-bare", "php-ini", "flask", "express", "django", "tomcat", "cookies-php", "second-steps"]
