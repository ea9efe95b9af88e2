<?php
// A page behind Basic.
require __DIR__ . '/common.php';
if (isset($_SERVER['PHP_AUTH_PW']) && is_right($_SERVER['PHP_AUTH_USER'], $_SERVER['PHP_AUTH_PW'])) {
    echo 'inside';
} else {
    header('WWW-Authenticate: Basic realm="site"', true, 401);
    echo 'outside';
}
