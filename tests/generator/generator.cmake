jfa_add_test(templates_embed_test SOURCES generator/templates_embed_test.cpp LIBRARIES jfa_generator)
target_compile_definitions(templates_embed_test PRIVATE JFA_TEMPLATE_DIR="${PROJECT_SOURCE_DIR}/templates")

jfa_add_test(generator_plan_test
  SOURCES generator/plan_test.cpp generator/backward_path_test.cpp
  LIBRARIES jfa_generator fmt::fmt nlohmann_json::nlohmann_json)

jfa_add_test(generator_fit_test SOURCES generator/fit_test.cpp LIBRARIES jfa_generator fmt::fmt)
target_compile_definitions(generator_fit_test PRIVATE JFA_TEMPLATE_DIR="${PROJECT_SOURCE_DIR}/templates")

jfa_add_test(generator_tuning_test
  SOURCES generator/tuning_test.cpp
  LIBRARIES jfa_runtime jfa_generator jfa_cache fmt::fmt nlohmann_json::nlohmann_json)
