/* Holds one thread of another process, as a debugger does, until standard input ends: hold_thread THREAD.
   Prints "holds", or "fails" where a process may not be held by another. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>

int main(int count, char **words) {
    (void)count;
    pid_t thread = atoi(words[1]);
    int held = ptrace(PTRACE_SEIZE, thread, 0, 0) == 0 && ptrace(PTRACE_INTERRUPT, thread, 0, 0) == 0;
    if (held) {
        waitpid(thread, NULL, __WALL);
    }
    fputs(held ? "holds" : "fails", stdout);
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
