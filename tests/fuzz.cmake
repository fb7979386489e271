# The fuzz targets over their corpus: seeds, and inputs that once did harm. tests/fuzz builds the fuzzers themselves.
if(TARGET jfa_sim_launch)
  add_executable(ptx_replay fuzz/ptx_fuzz.cpp fuzz/replay.cpp)
  target_link_libraries(ptx_replay PRIVATE jfa_test_options jfa_simulator)
  add_executable(launch_replay fuzz/launch_fuzz.cpp fuzz/replay.cpp)
  target_link_libraries(launch_replay PRIVATE jfa_test_options jfa_sim_launch jfa_safetensors)
  foreach(target ptx launch)
    add_test(NAME fuzz_${target}_replay
             COMMAND ${target}_replay ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${target})
    set_tests_properties(fuzz_${target}_replay PROPERTIES TIMEOUT 120 LABELS host)
    add_dependencies(jfa_sanitized_tests ${target}_replay)
  endforeach()
endif()
