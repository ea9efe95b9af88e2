<?php
// One throw-away site: all that differs between runs comes from the environment.
$config = [];
$config['db_dsnw'] = 'sqlite:///' . getenv('APP_DIRECTORY') . '/roundcube.sqlite?mode=0640';
$config['imap_host'] = getenv('APP_IMAP');
$config['des_key'] = 'a-throw-away-site-012345';
$config['log_dir'] = getenv('APP_DIRECTORY') . '/logs';
$config['temp_dir'] = getenv('APP_DIRECTORY');
$config['login_rate_limit'] = 1000;
$config['plugins'] = [];
$config['skin'] = 'elastic';
