<?php
// One server behind a Unix socket, and the form.
$cfg['blowfish_secret'] = 'a-throw-away-site-0123456789abcd';
$cfg['Servers'][1]['auth_type'] = 'cookie';
$cfg['Servers'][1]['host'] = 'localhost';
$cfg['Servers'][1]['socket'] = getenv('APP_DB_SOCKET');
$cfg['SendErrorReports'] = 'never';
