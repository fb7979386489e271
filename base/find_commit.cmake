# Writes the header that holds the commit which is checked out; the file keeps its time if nothing changed.
#
#   cmake -D SOURCE_DIR=… -D OUTPUT=jfa_commit.h [-D GIT=git] -P find_commit.cmake
cmake_minimum_required(VERSION 3.25)

set(commit unknown)
if(GIT)
  # A copy of jfa inside somebody else's repository has no commit of its own.
  execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} rev-parse --show-toplevel
                  OUTPUT_VARIABLE top ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(REAL_PATH "${SOURCE_DIR}" source_dir)
  if(top STREQUAL source_dir)
    execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} describe --always --exclude=* --abbrev=12 --dirty
                    OUTPUT_VARIABLE described ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(described MATCHES "^[0-9a-f]+(-dirty)?$")
      set(commit ${described})
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "#define JFA_COMMIT \"@commit@\"\n" @ONLY)
