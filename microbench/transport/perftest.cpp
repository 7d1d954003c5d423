#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "transport/measurements.hpp"

namespace sluice::microbench {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
/// perftest's megabyte is 2^20 bytes.
constexpr double kMegabyte = 1.048576;
constexpr int kSeconds = 60;

/// Columns of the line of final results.
enum Column : std::size_t { MedianLatency = 1, Bandwidth = 5 };

struct ClosePipe {
  void operator()(std::FILE* pipe) const noexcept { pclose(pipe); }
};

/// @return what the command prints on its standard output
std::string output_of(const std::string& command) {
  const std::unique_ptr<std::FILE, ClosePipe> pipe(popen(command.c_str(), "r"));
  std::string output;
  std::array<char, 4096> part{};
  while (pipe != nullptr && std::fgets(part.data(), part.size(), pipe.get()) != nullptr)
    output += part.data();
  return output;
}

double final_column(const std::string& output, Column column) {
  std::istringstream lines(output);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.rfind("Final:", 0) != 0) continue;
    std::istringstream words(line.substr(6));
    std::vector<double> values;
    for (double value = 0; words >> value;) values.push_back(value);
    if (values.size() > column) return values[column];
  }
  return kNone;
}

/// Both processes end with the command: the client's end is the server's.
double perftest(const std::string& environment, const std::string& options, Column column) {
  static int port = 13400 + static_cast<int>(getpid() % 500);
  ++port;
  const std::string run = fmt::format("{} timeout {} ucx_perftest -p {}", environment, kSeconds, port);
  const std::string command = fmt::format(
      "{0} -c 0 >/dev/null 2>&1 & for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; "
      "{0} -c 1 localhost {1} 2>/dev/null && break; done; wait",
      run, options);
  return final_column(output_of(command), column);
}

}  // namespace

double perftest_latency(std::size_t bytes, bool rendezvous, std::uint32_t turns) {
  return perftest(rendezvous ? "UCX_RNDV_THRESH=0" : "UCX_RNDV_THRESH=inf",
                  fmt::format("-t ucp_am_lat -s {} -n {} -w 1000", bytes, turns), MedianLatency);
}

double perftest_bandwidth(std::size_t bytes, std::uint32_t window, std::uint32_t messages) {
  return kMegabyte *
         perftest("UCX_RNDV_THRESH=0",
                  fmt::format("-t ucp_am_bw -s {} -n {} -w {} -O {}", bytes, messages, 2 * window, window),
                  Bandwidth);
}

}  // namespace sluice::microbench
