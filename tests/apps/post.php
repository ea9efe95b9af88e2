<?php
// Says what PHP finds in a form: every value below `log` and below `user[email]`, one in a line, in hexadecimal digits.
// Run by PHP's own server, with what it takes for `$_POST` and for nothing else.

function say($value)
{
    if (is_array($value)) {
        array_walk($value, 'say');
    } else {
        echo bin2hex($value), "\n";
    }
}

echo "log\n";
if (isset($_POST['log'])) {
    say($_POST['log']);
}
echo "user[email]\n";
if (isset($_POST['user']) && is_array($_POST['user']) && isset($_POST['user']['email'])) {
    say($_POST['user']['email']);
}
