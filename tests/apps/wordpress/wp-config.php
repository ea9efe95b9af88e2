<?php
// One throw-away site: all that differs between runs comes from the environment.
define('DB_NAME', 'wordpress');
define('DB_USER', 'wordpress');
define('DB_PASSWORD', getenv('APP_DB_PASSWORD'));
define('DB_HOST', 'localhost:' . getenv('APP_DB_SOCKET'));
define('DB_CHARSET', 'utf8mb4');
define('WP_HOME', getenv('APP_SITE'));
define('WP_SITEURL', getenv('APP_SITE'));

// Nothing leaves the machine, and no background job competes with the measurement.
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('DISABLE_WP_CRON', true);
define('AUTOMATIC_UPDATER_DISABLED', true);

$table_prefix = 'wp_';
if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__ . '/');
}
require_once ABSPATH . 'wp-settings.php';
