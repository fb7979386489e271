# Puts the installed tree into another place, and nothing into the old one.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${TO} ${STALE})
file(RENAME ${FROM} ${TO})
