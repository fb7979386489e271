// The model of tcgen05.mma against points that somebody has measured.
//
//   jfa_bench_product_points LATENCY.csv THROUGHPUT.csv
//
// Columns by name: format, operands (SS or TS), cta_group, m, n, and latency_cycles or
// cycles_per_instruction. Prints the mean and the largest error of each set, and what is off by more than 2
// %. Exit status 1 if a mean is.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "simulator/timing/constants.h"
#include "simulator/timing/tensor_pipe.h"

namespace {

using jfa::simulator::timing::ProductShape;
using Row = std::map<std::string, std::string>;

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  return cells;
}

std::vector<Row> read_table(const char* path) {
  std::ifstream file(path);
  std::vector<Row> rows;
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> names = split(line);
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = split(line);
    Row row;
    for (std::size_t i = 0; i < std::min(names.size(), cells.size()); ++i) row[names[i]] = cells[i];
    rows.push_back(row);
  }
  return rows;
}

ProductShape shape_of(const Row& row) {
  ProductShape shape;
  shape.m = std::stoi(row.at("m"));
  shape.n = std::stoi(row.at("n"));
  shape.cta_group = std::stoi(row.at("cta_group"));
  shape.a_in_tensor_memory = row.at("operands") == "TS";
  const std::string& format = row.at("format");
  if (format == "S8") shape.kind = ProductShape::Kind::integer;
  if (format.starts_with("MX")) shape.kind = ProductShape::Kind::scaled;
  return shape;
}

constexpr double kBound = 0.02;

// True if the mean is within the bound.
bool compare(const char* path, const std::string& column) {
  const double shared_bytes = constants(jfa::simulator::timing::ConstantSet::nominal).shared_bytes;
  const std::vector<Row> rows = read_table(path);
  double sum = 0, most = 0;
  int off = 0;
  std::string misses;
  for (const Row& row : rows) {
    const double measured = std::stod(row.at(column));
    const auto time = product_time(shape_of(row), shared_bytes);
    const double model = column == "latency_cycles" ? time.latency : time.interval;
    const double error = std::abs(model / measured - 1);
    sum += error;
    most = std::max(most, error);
    if (error <= kBound) continue;
    ++off;
    misses += fmt::format("  {} {} {}x{} of {} CTAs: measured {:.1f}, model {:.1f}, {:+.1f} %\n",
                          row.at("format"), row.at("operands"), row.at("m"), row.at("n"), row.at("cta_group"),
                          measured, model, 100 * (model / measured - 1));
  }
  if (rows.empty()) {
    fmt::print("{}: no points\n", path);
    return false;
  }
  const double mean = sum / static_cast<double>(rows.size());
  fmt::print("{}: {} points, mean error {:.2f} %, largest {:.1f} %, {} beyond 2 %\n{}", column, rows.size(),
             100 * mean, 100 * most, off, misses);
  return mean <= kBound;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: {} LATENCY.csv THROUGHPUT.csv\n", argv[0]);
    return 2;
  }
  fmt::print("model of tcgen05.mma, constants {}\n", jfa::simulator::timing::constants_hash());
  const bool latencies = compare(argv[1], "latency_cycles");
  const bool throughputs = compare(argv[2], "cycles_per_instruction");
  return latencies && throughputs ? 0 : 1;
}
