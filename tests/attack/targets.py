"""All applications, and those of them that are quick to start."""

from applications import Django, PhpMyAdminSite, TomcatServer, Wiki, WordPressSite
from own_sites import Express, Flask, Php, PhpApache, PhpBare, PhpFpm, Rails

TARGETS = {
    one.name: one
    for one in (
        PhpBare,
        Php,
        PhpFpm,
        PhpApache,
        Flask,
        Express,
        Rails,
        Django,
        TomcatServer,
        WordPressSite,
        PhpMyAdminSite,
        Wiki,
    )
}
QUICK = ["php-bare", "php-ini", "flask", "express", "django", "tomcat"]
