# The C interface, from a C program that is linked with libjfa.so alone.
if(TARGET jfa_shared)
  enable_language(C)
  add_executable(c_api_test c_api_test.c)
  set_target_properties(c_api_test PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  target_compile_options(c_api_test PRIVATE -Wall -Wextra -Werror -pedantic)
  target_compile_definitions(c_api_test PRIVATE JFA_TEST_VERSION="${PROJECT_VERSION}")
  target_link_libraries(c_api_test PRIVATE jfa_shared m)
  if(JFA_SANITIZE)
    target_link_options(c_api_test PRIVATE -fsanitize=address,undefined)
  endif()
  add_test(NAME c_api_test COMMAND c_api_test WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(c_api_test PROPERTIES TIMEOUT 300 LABELS simulator
                                             ENVIRONMENT JFA_CACHE_DIR=${JFA_TEST_CACHE_DIR})
endif()

# And from Python. Sanitizers would have to be loaded before the interpreter.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(TARGET jfa_shared AND Python3_FOUND AND NOT JFA_SANITIZE)
  add_test(NAME jfa_ctypes_test
           COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/jfa_ctypes_test.py $<TARGET_FILE:jfa_shared>)
  set_tests_properties(jfa_ctypes_test PROPERTIES TIMEOUT 300 LABELS simulator
                                                  ENVIRONMENT JFA_CACHE_DIR=${JFA_TEST_CACHE_DIR})
endif()
