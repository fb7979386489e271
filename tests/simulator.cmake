# The simulator's core: parser, instructions, memory, warps, schedules.
add_library(jfa_simulator_one_op STATIC simulator_one_op.cpp)
target_link_libraries(jfa_simulator_one_op PUBLIC jfa_test_options doctest::doctest jfa_simulator)
foreach(feature parser modifier_order integer float convert warp warp_matrix call requests memory barrier race release overwrite
        global_race global_history schedule
        grid_dependency layout_witness target)
  jfa_add_test(simulator_${feature}_test SOURCES simulator_${feature}_test.cpp
               LIBRARIES jfa_simulator_one_op LABELS sim)
endforeach()
