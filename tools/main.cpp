#include "command/command_line.hpp"

int main(int argc, char** argv) { return sluice::tools::run_command_line(argc, argv); }
