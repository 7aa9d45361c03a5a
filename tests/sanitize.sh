#!/bin/sh
# Cargo calls this in the place of the compiler (`make sanitize`): what is built for the target is built with a
# sanitizer. What runs while it is built is not, and build scripts are not told: they would compile the C++ of
# RocksDB anew with it, which takes an hour.
case " $* " in
    *" --print=cfg "*) exec "$@" ;;
    *" --target "*) exec "$@" "-Zsanitizer=$SANITIZER" ;;
    *) exec "$@" ;;
esac
