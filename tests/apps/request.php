<?php
// Says what PHP finds in a request, whatever its method: every value of `log` and below it in `$_REQUEST`, then whether there
// is a `pwd`, then how long its body is. Run by PHP's own server without a php.ini, which then reads cookies as well.

function say($value)
{
    if (is_array($value)) {
        array_walk($value, 'say');
    } else {
        echo bin2hex($value), "\n";
    }
}

if (isset($_REQUEST['log'])) {
    say($_REQUEST['log']);
}
echo isset($_REQUEST['pwd']) ? "pwd\n" : "no pwd\n", strlen(file_get_contents('php://input')), "\n";
