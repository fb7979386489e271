# What a report of bench/peers.py may compare.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND)
  add_test(NAME bench_ratios_test
           COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/bench/ratios_test.py ${PROJECT_SOURCE_DIR}/bench)
  set_tests_properties(bench_ratios_test PROPERTIES TIMEOUT 60 LABELS tools)
endif()
