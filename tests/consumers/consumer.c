/* The smallest C program that uses jfa, of libjfa.so or of libjfa.a. */
#include <jfa/jfa.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  jfa_configuration configuration;
  jfa_device* device = NULL;
  jfa_configuration_init(&configuration);
  configuration.head_dim = 12;
  printf("jfa %s (%s)\n", jfa_version(), jfa_commit());
  if (strcmp(jfa_version(), JFA_VERSION_STRING) != 0) return 1;
  if (jfa_supported(&configuration) == JFA_OK) return 2;
  printf("head_dim 12: %s\n", jfa_last_error_message());
  if (strstr(jfa_last_error_message(), "12") == NULL) return 3;
  if (jfa_device_open("sim:sm_100a", &device) != JFA_OK) return 4;
  jfa_device_close(device);
  return 0;
}
