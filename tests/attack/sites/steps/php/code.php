<?php
// A code that the session says whose it is. Every code that is compared is written down.
session_start(['read_and_close' => true]);
$code = $_POST['code'] ?? $_GET['code'] ?? null;
if (!isset($_SESSION['user']) || !is_string($code)) {
    echo '<form method=post>';
    return;
}
$said = json_encode(['user' => $_SESSION['user'], 'password' => $code], JSON_INVALID_UTF8_SUBSTITUTE);
file_put_contents(getenv('ATTEMPTS'), $said . "\n", FILE_APPEND);
if (str_starts_with($code, 'right-')) {
    header('Location: /home.php', true, 302);
} else {
    echo 'Wrong code';
}
