#pragma once

#include <string>

namespace CLI {
class App;
}

namespace sluice::tools {

/// Gives a command's options from a TOML file: a key for each option, named as the option without
/// its dashes. What the command line gave stays.
/// @throws ConfigError naming `config` (file, line and cause) or the key
void apply_toml(CLI::App& command, const std::string& path);

}  // namespace sluice::tools
