# The arrows of docs/design.md: what a folder may include; and that a wrong arrow is found.
add_test(NAME includes_test COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/house/includes.sh ${PROJECT_SOURCE_DIR})
set(wrong ${CMAKE_CURRENT_BINARY_DIR}/house/wrong)
file(WRITE ${wrong}/cache/entry.h "#pragma once\n#include \"jfa/status.h\"\n")
file(WRITE ${wrong}/simulator/machine/warp.cpp "#include \"simulator/ptx/ptx.h\"\n#include \"simulator/checkers/races.h\"\n")
add_test(NAME includes_refused_test COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/house/includes.sh ${wrong})
set_tests_properties(includes_refused_test PROPERTIES PASS_REGULAR_EXPRESSION
  "simulator/machine/warp.cpp:2: simulator/machine may not include simulator/checkers/races.h.*3 includes, 1 of them wrong")
set_tests_properties(includes_test includes_refused_test PROPERTIES TIMEOUT 60 LABELS host)
