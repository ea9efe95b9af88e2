<?php
// Prints a new password for applications.
// Usage: php token.php ROOT USER
[, $root, $user] = $argv;
require "$root/wp-load.php";
$made = WP_Application_Passwords::create_new_application_password(get_user_by('login', $user)->ID, ['name' => 'phone']);
is_wp_error($made) ? exit(1) : print($made[0]);
