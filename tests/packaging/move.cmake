# Puts the installed tree into another place, and nothing into the old one.
file(REMOVE_RECURSE ${TO})
file(RENAME ${FROM} ${TO})
