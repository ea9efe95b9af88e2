<?php
// Makes the accounts of a file, as the owner of the database.
// Usage: php accounts.php FILE
$database = new mysqli('localhost', 'root', '', '', 0, getenv('APP_DB_SOCKET'));
foreach (array_filter(explode(";\n", file_get_contents($argv[1]))) as $statement) {
    $database->query($statement);
}
