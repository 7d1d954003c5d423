#include "command/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "command/commands.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

constexpr int kRunFailed = 1;
constexpr int kUsage = 2;

int fail(int code, const std::string& message) {
  fmt::print(stderr, "sluice: {}\n", message);
  return code;
}

/// One line, whatever an argument or a cause holds.
std::string one_line(std::string text) {
  const auto is_control = [](unsigned char c) { return std::iscntrl(c) != 0; };
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  return text;
}

/// Of a cause from a library, without its stack trace.
std::string first_line(const std::string& text) { return one_line(text.substr(0, text.find('\n'))); }

/// Names of the subcommands, separated by commas.
std::string commands_of(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.append(names.empty() ? "" : ", ").append(command->get_name());
  return names;
}

}  // namespace

int run_command_line(int argc, const char* const* argv) {
  CLI::App app("Readiness-first pipeline-parallel training", "sluice");
  app.set_version_flag("--version", SLUICE_VERSION);
  app.require_subcommand(1);
  // A script that appends an option to a list of them means the last one.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_train(app);
  add_compare(app);
  add_simulate(app);
  add_schedule(app);
  add_trace(app);
  add_reproduce(app);
  add_capture(app);
  try {
    app.parse(argc, argv);
    return EXIT_SUCCESS;
  } catch (const CLI::ParseError& error) {
    // Help and version are thrown too.
    if (error.get_exit_code() == 0) return app.exit(error);
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands().empty())
      return fail(kUsage, one_line(fmt::format("'{}' is not a command: {}", argv[1], commands_of(app))));
    return fail(kUsage, one_line(error.what()));
  } catch (const ConfigError& error) {
    return fail(kUsage, one_line(error.what()));
  } catch (const StallError& error) {
    return fail(kRunFailed, error.what());
  } catch (const Aborted& error) {
    return fail(kRunFailed, error.what());
  } catch (const std::exception& error) {
    return fail(kRunFailed, first_line(error.what()));
  }
}

}  // namespace sluice::tools
