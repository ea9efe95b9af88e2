<?php
// Reads bodies from standard input, each after its length in a line of its own, and says for each how many sign-ins
// WordPress's own XML-RPC server would try. The first argument is the folder of WordPress's IXR.

error_reporting(0);
ini_set('display_errors', '0');
foreach (['message', 'value', 'error', 'date', 'base64', 'server'] as $part) {
    require "{$argv[1]}/class-IXR-$part.php";
}

function apply_filters($name, $value) { return $value; }
function __($text) { return $text; }
function login($args) { global $tried; $tried++; return 'no'; }

class Server extends IXR_Server
{
    function output($xml) {}
    function error($error, $message = false) { throw new Exception('refused'); }
}

while (($length = fgets(STDIN)) !== false) {
    $body = (int)$length > 0 ? stream_get_contents(STDIN, (int)$length) : '';
    $tried = 0;
    try {
        // As xmlrpc.php does.
        $body = trim($body);
        if ($body !== '') {
            (new Server(['login' => 'login'], false, true))->serve($body);
        }
    } catch (Throwable $error) {
    }
    echo $tried, "\n";
}
