#pragma once

#include <set>
#include <string>

namespace CLI {
class App;
}

namespace sluice::tools {

/// Gives a command's options from a TOML file: a key for each option, named as the option without
/// its dashes. What the command line gave stays.
/// @param ignored keys that the command line has made void
/// @throws ConfigError naming `config` (file, line and cause) or the key
void apply_toml(CLI::App& command, const std::string& path, const std::set<std::string>& ignored = {});

}  // namespace sluice::tools
