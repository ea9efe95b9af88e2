<?php
// A form that does not care where its fields come from.
require __DIR__ . '/common.php';
if (isset($_REQUEST['pw'])) {
    answer_with_redirect(is_right(text($_REQUEST['login'] ?? ''), text($_REQUEST['pw'])), $_REQUEST);
} else {
    echo '<form method=post><input name=login><input name=pw type=password></form>';
}
