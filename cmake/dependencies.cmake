# The libraries that jfa needs. The installed package's jfaConfig.cmake looks for the same ones.
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(Threads REQUIRED)
