# The simulator as a product of its own: `cmake --install build --component simulator` installs no more than this.
# Headers lie under include/jfa-simulator by the names they have here.
set(simulator_include_dir ${CMAKE_INSTALL_INCLUDEDIR}/jfa-simulator)
foreach(header IN ITEMS
        base/driver_table.h base/status.h
        simulator/campaign/mutation.h simulator/campaign/recording.h simulator/campaign/shrink.h
        simulator/driver/simulated_driver.h
        simulator/machine/device_memory.h simulator/machine/grid_dependency.h simulator/machine/habits.h
        simulator/machine/launch.h
        simulator/machine/program.h simulator/machine/report.h simulator/machine/schedule.h simulator/machine/trace.h
        simulator/ptx/types.h)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${simulator_include_dir}/${folder} COMPONENT simulator)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/include/jfa/status.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/jfa COMPONENT simulator)
install(FILES ${jfa_simulator_archive} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT simulator OPTIONAL)
if(TARGET jfa-sim)
  install(TARGETS jfa-sim RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT simulator OPTIONAL)
endif()

# Its C++ interface may change with every minor version.
set(simulator_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/jfa-simulator)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/jfa-simulatorConfig.cmake.in ${PROJECT_BINARY_DIR}/jfa-simulatorConfig.cmake
  INSTALL_DESTINATION ${simulator_package_dir}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/jfa-simulatorConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/jfa-simulatorConfig.cmake ${PROJECT_BINARY_DIR}/jfa-simulatorConfigVersion.cmake
        DESTINATION ${simulator_package_dir} COMPONENT simulator)
