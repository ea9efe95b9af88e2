<?php
// A sign-in of programs: JSON in the body, whatever its method and its type.
require __DIR__ . '/../common.php';
header('Content-Type: application/json');
$given = json_decode(file_get_contents('php://input'), true);
if (!is_array($given) || !isset($given['pw'])) {
    http_response_code(400);
    echo '{"error":"no password"}';
} elseif (is_right(text($given['login'] ?? ''), text($given['pw']))) {
    echo '{"token":"inside"}';
} else {
    http_response_code(401);
    echo '{"error":"wrong password"}';
}
