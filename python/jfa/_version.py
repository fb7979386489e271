"""The version of the package; include/jfa/version.h of the project says the same."""

VERSION = "0.1.0"
