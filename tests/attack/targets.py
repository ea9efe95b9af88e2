"""All applications, and those of them that are quick to start."""

from applications import Django, PhpMyAdminSite, TomcatServer, Wiki, WordPressSite
from own_sites import Express, Flask, Php, PhpApache, PhpBare, PhpFpm, Rails

SITES = (PhpBare, Php, PhpFpm, PhpApache, Flask, Express, Rails)
APPLICATIONS = (Django, TomcatServer, WordPressSite, PhpMyAdminSite, Wiki)
TARGETS = {one.name: one for one in (*SITES, *APPLICATIONS)}
QUICK = ["php-bare", "php-ini", "flask", "express", "django", "tomcat"]
