<?php // A form in the index of a directory: it judges every password that it is sent, and says so.
echo isset($_POST["password"]) ? "judged" : "a form";
