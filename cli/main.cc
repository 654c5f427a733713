#include "cli/command.h"

int main(int argc, char** argv) { return tilewright::cli::run(argc, argv); }
