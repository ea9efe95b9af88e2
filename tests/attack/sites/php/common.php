<?php
// What every form of this site does with a name and a password: it writes down that it compares them.
// A right password begins with `right-`, so that each of them can be told from all others.

function is_right(string $user, string $password): bool
{
    $line = json_encode(['user' => $user, 'password' => $password], JSON_INVALID_UTF8_SUBSTITUTE) . "\n";
    file_put_contents(getenv('ATTEMPTS') ?: $_SERVER['ATTEMPTS'], $line, FILE_APPEND);
    return str_starts_with($password, 'right-');
}

function text(mixed $value): string
{
    return is_string($value) ? $value : (is_array($value) ? text(reset($value)) : '');
}

// A page that says again what was typed, as forms do, before it says that the password was wrong.
function answer_with_page(bool $right, array $given): void
{
    if ($right) {
        setcookie('SESSION', 'inside');
        header('Location: /home.php', true, 302);
        return;
    }
    $note = htmlspecialchars(text($given['note'] ?? ''));
    echo_range("<form><textarea>$note</textarea></form><p>Login failed</p>");
}

// Parts of any answer, as servers have it that look at Range before they look at the method.
function echo_range(string $page): void
{
    if (!preg_match('/^bytes=(\d+)-(\d*)$/', $_SERVER['HTTP_RANGE'] ?? '', $range)) {
        echo $page;
    } elseif ($range[1] >= strlen($page)) {
        http_response_code(416);
    } else {
        http_response_code(206);
        echo substr($page, (int) $range[1], $range[2] === '' ? null : (int) $range[2] - (int) $range[1] + 1);
    }
}

// A redirect either way; a wrong password comes back to the form with all that it was sent with.
function answer_with_redirect(bool $right, array $given): void
{
    $next = rawurlencode(text($given['next'] ?? ''));
    $right ? setcookie('SESSION', 'inside') : null;
    header('Location: ' . ($right ? '/home.php' : "/any.php?error=1&next=$next"), true, 302);
}
