<?php
// The same form as the index of a directory.
require __DIR__ . '/../common.php';
if (isset($_POST['pw'])) {
    answer_with_page(is_right(text($_POST['login'] ?? ''), text($_POST['pw'])), $_POST);
} else {
    echo '<form method=post><input name=login><input name=pw type=password></form>';
}
