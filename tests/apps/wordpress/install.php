<?php
// What wp-admin/install.php does in its second step, without a browser: tables, options and one administrator;
// and another one.
// Usage: php install.php ROOT USER PASSWORD OTHER OTHERS-PASSWORD
[, $root, $user, $password, $other, $others_password] = $argv;
define('WP_INSTALLING', true);
require "$root/wp-load.php";
require ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install('Behind the gate', $user, 'admin@example.org', true, '', wp_slash($password));
update_option('permalink_structure', '/%postname%/');
wp_create_user($other, wp_slash($others_password), 'other@example.org');
exit(is_blog_installed() && username_exists($user) && username_exists($other) ? 0 : 1);
