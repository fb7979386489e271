#pragma once

#include <string>

std::string host_text();
std::string host_json();
