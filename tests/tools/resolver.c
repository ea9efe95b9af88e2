/* Loaded into a program, it answers for names that end with ".test": the file that NAMES names has the address of all of them, and
   without the file they do not exist. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int resolve(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    resolve *real = (resolve *)dlsym(RTLD_NEXT, "getaddrinfo");
    size_t length = name ? strlen(name) : 0;
    if (length < 5 || strcmp(name + length - 5, ".test") != 0) {
        return real(name, service, hints, found);
    }
    char address[64] = "";
    FILE *file = fopen(getenv("NAMES"), "r");
    int lines = file ? fscanf(file, "%63s", address) : 0;
    if (file) {
        fclose(file);
    }
    return lines == 1 ? real(address, service, hints, found) : EAI_NONAME;
}
