# Tiny projects use jfa as others do: installed, by CMake's package or by pkg-config, and as a subdirectory.
set(consumer_dir ${CMAKE_CURRENT_BINARY_DIR}/consumers)
set(consumer_options -D CMAKE_BUILD_TYPE=None)  # nothing is slower than it must be to compile
if(CMAKE_CXX_COMPILER_LAUNCHER)
  list(APPEND consumer_options -D CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# jfa_add_consumer_test(kind [OPTIONS cmake-option...])
# Configures, builds and tests tests/consumers/<kind>.
function(jfa_add_consumer_test kind)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "OPTIONS")
  add_test(NAME jfa_consumer_${kind}
           COMMAND ${CMAKE_CTEST_COMMAND} --build-and-test ${CMAKE_CURRENT_SOURCE_DIR}/consumers/${kind}
                   ${consumer_dir}/${kind} --build-generator ${CMAKE_GENERATOR}
                   --build-options ${consumer_options} ${arg_OPTIONS}
                   --test-command ${CMAKE_CTEST_COMMAND} --output-on-failure --no-tests=error)
  set_tests_properties(jfa_consumer_${kind} PROPERTIES TIMEOUT 900 LABELS packaging)
endfunction()

if(JFA_INSTALL AND TARGET jfa_shared)
  add_test(NAME jfa_install
           COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --prefix ${consumer_dir}/installed)
  # It works wherever it lies. What its last users found in it is forgotten.
  set(consumers find_package pkg_config examples)
  list(TRANSFORM consumers PREPEND ${consumer_dir}/ OUTPUT_VARIABLE stale)
  list(JOIN stale "$<SEMICOLON>" stale)
  add_test(NAME jfa_install_moved
           COMMAND ${CMAKE_COMMAND} -D FROM=${consumer_dir}/installed -D TO=${consumer_dir}/moved
                   "-D STALE=${stale}"
                   -P ${CMAKE_CURRENT_SOURCE_DIR}/packaging/scripts/move.cmake)
  set_tests_properties(jfa_install PROPERTIES FIXTURES_SETUP installed LABELS packaging)
  set_tests_properties(jfa_install_moved PROPERTIES FIXTURES_SETUP moved FIXTURES_REQUIRED installed LABELS packaging)

  get_target_property(json_include_dir nlohmann_json::nlohmann_json INTERFACE_INCLUDE_DIRECTORIES)
  list(GET json_include_dir 0 json_include_dir)  # some packages name it twice
  jfa_add_consumer_test(find_package
    OPTIONS -D CMAKE_PREFIX_PATH=${consumer_dir}/moved -D HOST_FMT_INCLUDE_DIR=${JFA_FMT_INCLUDE_DIR}
            -D HOST_JSON_INCLUDE_DIR=${json_include_dir} -D CUDA_INCLUDE_DIR=${JFA_CUDA_INCLUDE_DIR})
  jfa_add_consumer_test(pkg_config OPTIONS -D CMAKE_PREFIX_PATH=${consumer_dir}/moved)
  set_tests_properties(jfa_consumer_find_package jfa_consumer_pkg_config PROPERTIES FIXTURES_REQUIRED moved)

  # The tuning databases are where docs/install.md says.
  add_test(NAME jfa_installed_tuning
           COMMAND ${CMAKE_COMMAND} -E compare_files ${PROJECT_SOURCE_DIR}/tuning/databases/h200.json
                   ${consumer_dir}/moved/share/jfa/tuning/h200.json)
  set_tests_properties(jfa_installed_tuning PROPERTIES FIXTURES_REQUIRED moved LABELS packaging)

  # A shell that reads what was installed knows the command.
  if(TARGET jfa)
    add_test(NAME jfa_installed_completion
             COMMAND bash -c "source '${consumer_dir}/moved/share/bash-completion/completions/jfa' && complete -p jfa")
    set_tests_properties(jfa_installed_completion PROPERTIES FIXTURES_REQUIRED moved LABELS packaging)
  endif()

  add_test(NAME jfa_symbols
           COMMAND ${CMAKE_COMMAND} -D NM=${CMAKE_NM} -D READELF=${CMAKE_READELF} -D ARCHIVE=${jfa_archive}
                   -D SIMULATOR_ARCHIVE=${jfa_simulator_archive}
                   -D SHARED=$<TARGET_FILE:jfa_shared> -D HEADER=${PROJECT_SOURCE_DIR}/include/jfa/jfa.h
                   -D SONAME=libjfa.so.${PROJECT_VERSION_MAJOR} -D STATIC_RUNTIME=${JFA_STATIC_RUNTIME}
                   "-D SHARED_DEPENDENCIES=${jfa_shared_dependencies}"
                   -P ${CMAKE_CURRENT_SOURCE_DIR}/packaging/scripts/symbols.cmake)
  set_tests_properties(jfa_symbols PROPERTIES LABELS packaging)
endif()

if(JFA_GIT)
  add_test(NAME jfa_find_commit
           COMMAND ${CMAKE_COMMAND} -D GIT=${JFA_GIT} -D FOLDER=${CMAKE_CURRENT_BINARY_DIR}/find_commit
                   -D SCRIPT=${PROJECT_SOURCE_DIR}/base/find_commit.cmake
                   -P ${CMAKE_CURRENT_SOURCE_DIR}/packaging/scripts/find_commit.cmake)
  set_tests_properties(jfa_find_commit PROPERTIES LABELS packaging)
endif()

# Compiles the library once more, without the two thirds that a server does not need, in a few batches; file by file it
# takes a minute more, and the presets for developers build so.
jfa_add_consumer_test(add_subdirectory
  OPTIONS -D JFA_CUDA_INCLUDE_DIR=${JFA_CUDA_INCLUDE_DIR} -D JFA_BUILD_SIMULATOR=OFF
          -D CMAKE_UNITY_BUILD=ON -D CMAKE_UNITY_BUILD_BATCH_SIZE=16)
set_tests_properties(jfa_consumer_add_subdirectory PROPERTIES PROCESSORS 2)
