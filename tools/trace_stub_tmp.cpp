#include "trace_commands.hpp"
namespace sluice::tools {
void add_trace_summary(CLI::App&) {}
void add_trace_diff(CLI::App&) {}
void add_trace_export(CLI::App&) {}
void add_trace_replay(CLI::App&) {}
}
