// Names of countries for their codes.
const REGIONS = new Intl.DisplayNames(['en'], { type: 'region' });

/** `NO` → `Norway`. Unknown codes stay as they are. */
export function countryName(code: string): string {
  try {
    return REGIONS.of(code) ?? code;
  } catch {
    return code;
  }
}
