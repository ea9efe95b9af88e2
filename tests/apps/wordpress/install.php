<?php
// What wp-admin/install.php does in its second step, without a browser: tables, options and one administrator.
// Usage: php install.php ROOT USER PASSWORD
[, $root, $user, $password] = $argv;
define('WP_INSTALLING', true);
require "$root/wp-load.php";
require ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install('Behind the gate', $user, 'admin@example.org', true, '', wp_slash($password));
exit(is_blog_installed() && username_exists($user) ? 0 : 1);
