<?php echo "home";
