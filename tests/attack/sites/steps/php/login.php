<?php
// A password that begins a session. What is right begins with `right-`.
if (str_starts_with((string) ($_POST['pw'] ?? ''), 'right-')) {
    session_start();
    session_regenerate_id();
    $_SESSION['user'] = (string) $_POST['login'];
    header('Location: /code.php', true, 302);
} else {
    echo 'Login failed';
}
