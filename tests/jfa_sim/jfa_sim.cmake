# The jfa-sim command.
if(TARGET jfa-sim)
  foreach(part run tool)
    jfa_add_test(jfa_sim_${part}_test
      SOURCES jfa_sim/${part}_test.cpp command_runner.cpp
      LIBRARIES jfa_sim_launch jfa_safetensors jfa_cuda_headers fmt::fmt nlohmann_json::nlohmann_json
      LABELS tools)
    target_compile_definitions(jfa_sim_${part}_test PRIVATE JFA_SIM_TOOL="$<TARGET_FILE:jfa-sim>")
    add_dependencies(jfa_sim_${part}_test jfa-sim)
  endforeach()
endif()
